"""Groups for data and model parallelism: ranks arranged in a grid. Not in the original."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Tuple

from npu_device._core import groups, op_arguments, runtime
from npu_device._core.op_arguments import Node

__all__ = ["Mesh", "create_mesh"]

_AXIS = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


class Mesh:
    """This rank's place in a grid of all ranks, and its groups. Made by `create_mesh`.

    Attributes:
        shape: number of ranks along each axis, by name.
        coordinates: this rank's place along each axis, by name.
    """

    def __init__(self, shape: Dict[str, int], coordinates: Dict[str, int], name: str) -> None:
        self.shape = shape
        self.coordinates = coordinates
        self._name = name

    def group(self, axis: str) -> str:
        """Returns the group of the ranks that differ from this one along one axis only.

        Pass it as `group` to collectives. A rank's number in it is its place along the axis.

        Args:
            axis: the axis's name.

        Raises:
            ValueError: the mesh has no such axis.
        """
        if axis not in self.shape:
            raise ValueError(
                f"The mesh has no axis {axis!r}, it has {', '.join(map(repr, self.shape))}."
            )
        others = [f"{one}{place}" for one, place in self.coordinates.items() if one != axis]
        return "_".join([self._name, axis, *others])

    def destroy(self) -> None:
        """Destroys this rank's groups, so that a mesh of that name can be made again."""
        for axis in self.shape:
            groups.destroy(self.group(axis))

    def __repr__(self) -> str:
        return f"Mesh(shape={self.shape}, coordinates={self.coordinates})"


def create_mesh(shape: Mapping[str, int], name: str = "mesh") -> Mesh:
    """Arranges all ranks in a grid, and makes a group along each axis. Not in the original.

        mesh = npu.distribute.create_mesh({"data": 2, "model": 2})
        npu.distribute.all_reduce(gradients, group=mesh.group("data"))

    With 4 ranks, 0 and 1 then hold the parts of one copy of the model, 2 and 3 those of another,
    and gradients are averaged between 0 and 2, and between 1 and 3. All ranks call it; it sends
    nothing.

    Args:
        shape: number of ranks by axis; their product is the number of all ranks. Rank numbers grow
            fastest along the last axis. One size may be -1, for what is left.
        name: what the names of the groups begin with; one for each mesh of a job.

    Returns:
        The mesh.

    Raises:
        TypeError: a size is not an integer.
        ValueError: the sizes do not make the number of ranks, an axis has a name with other
            characters than letters, digits and _, or a group of that name exists.
    """
    sizes = _checked(shape)
    coordinates = _coordinates(runtime.rank(), sizes)
    mesh = Mesh(sizes, coordinates, name)
    for axis in sizes:
        members = [
            rank
            for rank in range(runtime.size())
            if all(
                place == coordinates[other] or other == axis
                for other, place in _coordinates(rank, sizes).items()
            )
        ]
        groups.create(mesh.group(axis), len(members), members)
    return mesh


def _checked(shape: Any) -> Dict[str, int]:
    at = Node("npu_device.distribute", "create_mesh")
    ranks = runtime.size()
    if not isinstance(shape, Mapping) or not shape:
        raise ValueError(f"create_mesh: shape must map axes to sizes, got {shape!r}.")
    sizes: Dict[str, int] = {}
    for axis, size in shape.items():
        if not isinstance(axis, str) or not _AXIS.match(axis):
            raise ValueError(
                f"create_mesh: an axis is called {axis!r}; names begin with a letter and have "
                f"letters, digits and _."
            )
        sizes[axis] = op_arguments.integer(size, at, f"size of {axis!r}", -1)
    known = 1
    for size in sizes.values():
        known *= size if size != -1 else 1
    open_ones: List[str] = [axis for axis, size in sizes.items() if size == -1]
    if len(open_ones) == 1 and known and ranks % known == 0:
        sizes[open_ones[0]] = ranks // known
    elif open_ones or known != ranks:
        raise ValueError(
            f"create_mesh: the sizes {dict(shape)} do not make a grid of the {ranks} ranks of the "
            f"job. Their product must be {ranks}; one of them may be -1."
        )
    return sizes


def _coordinates(rank: int, sizes: Dict[str, int]) -> Dict[str, int]:
    places: List[Tuple[str, int]] = []
    for axis, size in reversed(list(sizes.items())):
        rank, place = divmod(rank, size)
        places.append((axis, place))
    return dict(reversed(places))
