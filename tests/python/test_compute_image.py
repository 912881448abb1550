"""Decoding, dense_image_warp, deformable convolution and file constants, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_ops
from npu_bridge.experimental.file_constant import file_constant
from npu_bridge.experimental.image import decode_image
from npu_bridge.image import image_ops
from npu_bridge.npu_cpu import npu_cpu_ops
from npu_bridge.tbe import npu_cube_ops
from tests.compute_checks import FLOATS, Op, check_gradients, gradients, rounded, run, run_in

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def jpeg():
    """The bytes of a smooth image, and its pixels as they are decoded."""
    rows, columns = np.mgrid[0:24, 0:32]
    pixels = np.stack([rows * 10, columns * 7, 255 - rows * 5 - columns * 3], -1)
    with tf.Graph().as_default(), tf.Session() as session:
        contents = session.run(tf.image.encode_jpeg(tf.constant(pixels.clip(0, 255), tf.uint8)))
        return contents, session.run(tf.image.decode_jpeg(contents, channels=3))


def resized(pixels, height, width):
    """Bilinear, with half-pixel centers."""

    def places(old, new):
        at = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        before = np.floor(at).astype(int)
        return before, np.minimum(before + 1, old - 1), at - before

    top, bottom, down = places(pixels.shape[0], height)
    left, right, across = places(pixels.shape[1], width)
    p = pixels.astype(np.float64)
    down, across = down[:, None, None], across[None, :, None]
    upper = p[top][:, left] * (1 - across) + p[top][:, right] * across
    lower = p[bottom][:, left] * (1 - across) + p[bottom][:, right] * across
    return upper * (1 - down) + lower * down


@pytest.mark.parametrize("size", [(24, 32), (12, 16), (10, 50), (1, 1)])
def test_decode_and_resize(jpeg, size):
    contents, pixels = jpeg
    with tf.Graph().as_default(), tf.Session() as session:
        y = image_ops.decode_and_resize_jpeg(contents, list(size))
        assert y.shape.as_list() == [*size, 3]
        y = session.run(y)
    assert y.dtype == np.uint8
    # A value that lies between two integers may be rounded to either.
    assert abs(y - resized(pixels, *size)).max() <= 0.51


@pytest.mark.parametrize(("crop", "size"), [((4, 8, 12, 16), (12, 16)), ((0, 0, 24, 32), (7, 9))])
def test_decode_and_crop_and_resize(jpeg, crop, size):
    contents, pixels = jpeg
    with tf.Graph().as_default(), tf.Session() as session:
        y = session.run(image_ops.decode_and_crop_and_resize_jpeg(contents, crop, size))
    top, left, height, width = crop
    part = pixels[top : top + height, left : left + width]
    assert abs(y - resized(part, *size)).max() <= 0.51


def test_decoding_says_what_is_wrong(jpeg):
    contents, _ = jpeg
    with pytest.raises(ValueError, match=r"decode_and_resize_jpeg: dimension 0 of size must be 2"):
        image_ops.decode_and_resize_jpeg(contents, [1, 2, 3])
    with pytest.raises(ValueError, match=r"decode_and_resize_jpeg: size must have .* \[0, 3\]"):
        image_ops.decode_and_resize_jpeg(contents, [0, 3])
    with pytest.raises(ValueError, match=r"crop_size must have .* got \[-1, 0, 2, 2\]"):
        image_ops.decode_and_crop_and_resize_jpeg(contents, [-1, 0, 2, 2], [2, 2])
    with pytest.raises(TypeError, match=r"must be the bytes of a file.*float32"):
        image_ops.decode_and_resize_jpeg(tf.zeros([2, 2, 3]), [2, 2])
    with tf.Graph().as_default(), tf.Session() as session:
        for y in (
            image_ops.decode_and_resize_jpeg(b"no image", [2, 2]),
            image_ops.decode_and_crop_and_resize_jpeg(contents, [20, 0, 5, 2], [2, 2]),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(y)


@pytest.mark.parametrize("channels", [0, 1, 3])
def test_decode_image(jpeg, channels):
    contents, _ = jpeg
    with tf.Graph().as_default(), tf.Session() as session:
        y, wanted = session.run(
            [decode_image(contents, channels), tf.image.decode_jpeg(contents, channels)]
        )
        np.testing.assert_array_equal(y, wanted)
        floats = session.run(decode_image(contents, channels, tf.float32))
        np.testing.assert_allclose(floats, wanted / 255, 1e-6)
    with pytest.raises(ValueError, match=r"channels must be 0, 1, 3 or 4, got 2"):
        decode_image(contents, 2)
    with pytest.raises(ValueError, match=r"dtype must be .* got int32"):
        decode_image(contents, dtype=tf.int32)


def warp(image, flow):
    batch, height, width, _ = image.shape
    result = np.empty_like(image)
    for b, y, x in np.ndindex(batch, height, width):
        row, column = y - flow[b, y, x, 0], x - flow[b, y, x, 1]
        top = int(min(max(np.floor(row), 0), max(height - 2, 0)))
        left = int(min(max(np.floor(column), 0), max(width - 2, 0)))
        bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
        down, across = min(max(row - top, 0), 1), min(max(column - left, 0), 1)
        upper = image[b, top, left] * (1 - across) + image[b, top, right] * across
        lower = image[b, bottom, left] * (1 - across) + image[b, bottom, right] * across
        result[b, y, x] = upper * (1 - down) + lower * down
    return result


def warp_inputs(shape, dtype="float64"):
    random = np.random.RandomState(1)
    image, flow = random.normal(size=shape), random.normal(size=(*shape[:3], 2)) * 2
    return rounded(image, dtype), rounded(flow, dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
@pytest.mark.parametrize("shape", [(2, 4, 5, 3), (1, 2, 2, 1), (1, 1, 4, 2), (2, 3, 1, 1)])
def test_dense_image_warp(shape, dtype, tolerance):
    image, flow = warp_inputs(shape, dtype)
    got = run_in(dtype, npu_cpu_ops.dense_image_warp, image, flow)
    np.testing.assert_allclose(got, warp(image, flow), tolerance, 2 * tolerance)


def test_a_flow_of_zeros_changes_nothing():
    image, flow = warp_inputs((1, 4, 5, 2))
    got = run(npu_cpu_ops.dense_image_warp, image, np.zeros_like(flow))
    np.testing.assert_allclose(got, image, 1e-12)


def test_the_gradients_of_dense_image_warp():
    image, flow = warp_inputs((2, 3, 4, 2))
    dy = np.random.RandomState(2).normal(size=image.shape)
    check_gradients(npu_cpu_ops.dense_image_warp, warp, dy, image, flow)
    got = run(
        lambda dy, *inputs: npu_cpu_ops.dense_image_warp_grad(Op(inputs), dy), dy, image, flow
    )
    for one, other in zip(got, gradients(npu_cpu_ops.dense_image_warp, dy, image, flow)):
        np.testing.assert_allclose(one, other, 1e-10)


def test_dense_image_warp_says_what_is_wrong():
    image, flow = tf.zeros([2, 4, 5, 3]), tf.zeros([2, 4, 5, 2])
    with pytest.raises(ValueError, match=r"image must have 4 dimensions \[batch.*\(4, 5, 3\)"):
        npu_cpu_ops.dense_image_warp(image[0], flow)
    with pytest.raises(ValueError, match=r"dimension 3 of flow must be 2"):
        npu_cpu_ops.dense_image_warp(image, image)
    with pytest.raises(ValueError, match=r"dimension 1 of flow must be 4"):
        npu_cpu_ops.dense_image_warp(image, flow[:, :3])
    with pytest.raises(TypeError, match=r"image must be of a floating-point dtype.*uint8"):
        npu_cpu_ops.dense_image_warp(tf.cast(image, tf.uint8), flow)


def deformable_offsets(x, offsets, stride, pads, kernel, dilation=(1, 1), groups=1):
    (n, height, width, channels), (kh, kw) = x.shape, kernel
    _, out_h, out_w, _ = offsets.shape
    per_group = channels // groups
    moves = offsets.reshape(n, out_h, out_w, 3, groups, kh, kw)
    result = np.zeros((n, out_h * kh, out_w * kw, channels))
    for b, oy, ox, g, ky, kx in np.ndindex(n, out_h, out_w, groups, kh, kw):
        move_x, move_y, mask = moves[b, oy, ox, :, g, ky, kx]
        y = oy * stride[0] - pads[0] + ky * dilation[0] + move_y
        x_ = ox * stride[1] - pads[2] + kx * dilation[1] + move_x
        part = slice(g * per_group, (g + 1) * per_group)
        top, left = int(np.floor(y)), int(np.floor(x_))
        for row in (top, top + 1):
            for column in (left, left + 1):
                if 0 <= row < height and 0 <= column < width:
                    share = (1 - abs(y - row)) * (1 - abs(x_ - column))
                    result[b, oy * kh + ky, ox * kw + kx, part] += (
                        mask * share * x[b, row, column, part]
                    )
    return result


def deformable_conv2d(x, weights, offsets, stride, pads, dilation=(1, 1), groups=1):
    kh, kw = weights.shape[:2]
    gathered = deformable_offsets(x, offsets, stride, pads, (kh, kw), dilation, groups)
    n, height, width, channels = gathered.shape
    blocks = gathered.reshape(n, height // kh, kh, width // kw, kw, channels)
    return np.einsum("nyaxbc,abco->nyxo", blocks, weights)


#: stride, pads, dilation, deformable groups
CONVOLUTIONS = [
    ((1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((2, 1), (0, 1, 2, 0), (1, 2), 1),
    ((1, 1), (1, 1, 1, 1), (1, 1), 2),
]


def convolution_inputs(stride, pads, dilation, groups, dtype="float64"):
    random = np.random.RandomState(1)
    x, weights = random.normal(size=(2, 5, 6, 4)), random.normal(size=(3, 2, 4, 3))
    out_h = (5 + pads[0] + pads[1] - 2 * dilation[0] - 1) // stride[0] + 1
    out_w = (6 + pads[2] + pads[3] - dilation[1] - 1) // stride[1] + 1
    offsets = random.normal(size=(2, out_h, out_w, 3 * groups * 6))
    return tuple(rounded(one, dtype) for one in (x, weights, offsets))


def convolve(x, weights, offsets, stride, pads, dilation, groups, data_format="NHWC"):
    def four(pair):
        return [1, *pair, 1] if data_format == "NHWC" else [1, 1, *pair]

    return npu_cube_ops.deformable_conv2d(
        x, weights, offsets, four(stride), pads, data_format, four(dilation),
        deformable_groups=groups,
    )  # fmt: skip


@pytest.mark.parametrize("attributes", CONVOLUTIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_deformable_conv2d(attributes, dtype, tolerance):
    inputs = convolution_inputs(*attributes, dtype)
    got = run_in(dtype, lambda *a: convolve(*a, *attributes), *inputs)
    wanted = deformable_conv2d(*inputs, *attributes)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, 2 * tolerance, 10 * tolerance)


@pytest.mark.parametrize("attributes", CONVOLUTIONS)
def test_deformable_conv2d_with_channels_first(attributes):
    x, weights, offsets = convolution_inputs(*attributes)
    got = run(
        lambda x, w, o: convolve(x, w, o, *attributes, "NCHW"),
        x.transpose(0, 3, 1, 2),
        weights,
        offsets.transpose(0, 3, 1, 2),
    )
    wanted = deformable_conv2d(x, weights, offsets, *attributes)
    np.testing.assert_allclose(got, wanted.transpose(0, 3, 1, 2), 1e-9, 1e-9)


def test_without_moves_it_is_a_convolution():
    x, weights, offsets = convolution_inputs(*CONVOLUTIONS[0])
    offsets[..., :12], offsets[..., 12:] = 0, 1
    got = run(lambda *a: convolve(*a, *CONVOLUTIONS[0]), x, weights, offsets)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = run(lambda x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "VALID"), padded, weights)
    np.testing.assert_allclose(got, wanted, 1e-9, 1e-9)


def test_the_gradients_of_deformable_conv2d():
    random = np.random.RandomState(3)
    attributes = ((1, 1), (0, 1, 1, 0), (1, 1), 1)
    x, weights = random.normal(size=(1, 3, 3, 2)), random.normal(size=(2, 2, 2, 1))
    offsets = random.normal(size=(1, 3, 3, 12))
    dy = random.normal(size=(1, 3, 3, 1))
    check_gradients(
        lambda *a: convolve(*a, *attributes),
        lambda *a: deformable_conv2d(*a, *attributes),
        dy,
        x,
        weights,
        offsets,
    )


def test_the_gradient_function_of_deformable_offsets():
    random = np.random.RandomState(3)
    x, offsets = random.normal(size=(1, 3, 3, 2)), random.normal(size=(1, 2, 2, 12))
    dy = random.normal(size=(1, 4, 4, 2))
    attributes = {
        "strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0], "ksize": [2, 2], "dilations": [1, 1, 1, 1],
        "data_format": b"NHWC", "deformable_groups": 1, "modulated": True,
    }  # fmt: skip

    def raw(x, offsets):
        return npu_ops.gen_npu_ops.deformable_offsets(
            x, offsets, [1, 1, 1, 1], [0, 0, 0, 0], [2, 2]
        )

    np.testing.assert_allclose(
        run(raw, x, offsets), deformable_offsets(x, offsets, (1, 1), (0, 0, 0, 0), (2, 2)), 1e-9
    )
    got = run(
        lambda dy, *inputs: npu_cube_ops.deformable_offsets_grad(Op(inputs, **attributes), dy),
        dy,
        x,
        offsets,
    )
    for one, other in zip(got, gradients(raw, dy, x, offsets)):
        np.testing.assert_allclose(one, other, 1e-10)


def test_offsets_that_are_not_finite_stay_inside():
    x, weights, offsets = convolution_inputs(*CONVOLUTIONS[0])
    offsets[0, 0, 0, 0] = np.inf
    offsets[0, 0, 0, 1] = 1e30
    got = run(lambda *a: convolve(*a, *CONVOLUTIONS[0]), x, weights, offsets)
    assert np.isfinite(got[0, 1:]).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strides": None}, r"strides is required"),
        ({"strides": [2, 1, 1, 1]}, r"strides must be 1 for batch and channels \(NHWC\)"),
        ({"strides": [1, 1]}, r"strides must be 4 integers from 1 on, got \[1, 1\]"),
        ({"pads": [0, 0, -1, 0]}, r"pads must be 4 integers from 0 on"),
        ({"dilations": [1, 0, 1, 1]}, r"dilations must be 4 integers from 1 on"),
        ({"groups": 2}, r"groups must be 1, got 2"),
        ({"modulated": False}, r"modulated must be True"),
        ({"data_format": "NHCW"}, r"data_format must be 'NHWC' or 'NCHW', got 'NHCW'"),
        ({"deformable_groups": 3}, r"x's 4 channels cannot be divided into deformable_groups=3"),
        ({"deformable_groups": 2}, r"dimension 3 of offsets must be 24"),
        ({"strides": [1, 2, 2, 1]}, r"dimension 1 of offsets must be 2, got shape"),
    ],
)
def test_deformable_conv2d_says_what_is_wrong(changes, message):
    arguments = {"strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0]}
    arguments.update(changes)
    x, weights, offsets = tf.zeros([1, 4, 4, 4]), tf.zeros([2, 2, 4, 1]), tf.zeros([1, 3, 3, 12])
    with pytest.raises(ValueError, match="deformable_conv2d: " + message):
        npu_cube_ops.deformable_conv2d(x, weights, offsets, **arguments)


@pytest.mark.parametrize(
    "dtype",
    "float32 float16 int8 int16 uint16 uint8 int32 int64 uint32 uint64 bool float64".split(),
)
def test_file_constant(tmp_path, dtype):
    values = np.array([[0, 1, 2], [3, 100, 0]]).astype(dtype)
    path = tmp_path / "weights.bin"
    path.write_bytes(values.tobytes())
    with tf.Graph().as_default(), tf.Session() as session:
        y = file_constant([2, 3], dtype, file_path=str(path))
        assert (y.dtype, y.shape.as_list()) == (dtype, [2, 3])
        np.testing.assert_array_equal(session.run(y), values)


def test_file_constant_says_what_is_wrong(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"1234")
    with pytest.raises(ValueError, match=r"weights.bin has 4 bytes, but float32 \[3\] takes 12"):
        file_constant([3], tf.float32, str(path))
    with pytest.raises(ValueError, match=r"file_path is required"):
        file_constant([1], tf.float32)
    with pytest.raises(NotImplementedError, match=r"file_id .* Pass file_path"):
        file_constant([1], tf.float32, file_id="weights")
    with pytest.raises(TypeError, match=r"not string"):
        file_constant([1], tf.string, str(path))
    with pytest.raises(ValueError, match=r"no size below 0"):
        file_constant([-1], tf.float32, str(path))
