"""Which TensorFlow goes with which Python: the one table that setup.py, make and CI read."""

import platform

#: Oldest TensorFlow whose headers the sources compile against.
OLDEST_TENSORFLOW = (1, 15)

#: Lane name -> (Python version, pip requirements). `{cpu}` becomes the distribution to install.
LANES = {
    "tf1.15": ((3, 7), ["tensorflow==1.15.5", "protobuf<3.21", "numpy<1.19"]),
    "tf2.6": ((3, 9), ["{cpu}==2.6.5", "protobuf<3.21"]),
    "tf2.15": ((3, 11), ["{cpu}==2.15.1"]),
    "tf2.21": ((3, 11), ["{cpu}==2.21.0"]),
}

MAIN_LANE = "tf2.15"

#: Lane name -> first and last Python version that its TensorFlow has wheels for.
PYTHONS = {
    "tf1.15": ((3, 7), (3, 7)),
    "tf2.6": ((3, 7), (3, 9)),
    "tf2.15": ((3, 9), (3, 11)),
    "tf2.21": ((3, 10), (3, 13)),
}


def python_is_supported(version_info):
    """True for the Python versions that some supported TensorFlow runs on: 3.7 and 3.9 up."""
    return tuple(version_info[:2]) >= (3, 7) and tuple(version_info[:2]) != (3, 8)


def lane_requirements(lane):
    """Returns pip requirements of `lane`, with the distribution this processor has wheels of."""
    # The slim distribution is published for x86-64 only.
    distribution = "tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"
    return [text.format(cpu=distribution) for text in LANES[lane][1]]


def tensorflow_for_python(version_info):
    """Returns the pip requirements of the TensorFlow to use with a Python version.

    Args:
        version_info: (major, minor, ...), as sys.version_info.

    Raises:
        ValueError: no supported TensorFlow runs on that Python.
    """
    if not python_is_supported(version_info):
        raise ValueError("no supported TensorFlow for Python %d.%d" % tuple(version_info[:2]))
    minor = tuple(version_info[:2])
    if minor == (3, 7):
        return lane_requirements("tf1.15")
    if minor <= (3, 11):
        return lane_requirements("tf2.15")
    return lane_requirements("tf2.21")


def tf_keras_for(requirements):
    """Returns the pip requirements of the tf-keras that goes with a TensorFlow, if there is one.

    Install them without their dependencies: they ask for another distribution of TensorFlow.

    Args:
        requirements: of a TensorFlow; the first one says its version.
    """
    name, _, version = requirements[0].partition("==") if requirements else ("", "", "")
    minor = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if not name.startswith("tensorflow") or len(minor) < 2 or minor < (2, 15):
        return []
    return ["tf_keras==%d.%d.*" % minor]


def _check_python(lane, version_info):
    first, last = PYTHONS[lane]
    if not first <= tuple(version_info[:2]) <= last:
        raise ValueError(
            "TensorFlow %s does not run on Python %d.%d, but on %d.%d to %d.%d"
            % ((lane[2:],) + tuple(version_info[:2]) + first + last)
        )


def tensorflow_from_option(option, version_info):
    """Returns the pip requirements for what a person wrote after TF=.

    Args:
        option: a lane ("tf2.6"), a version ("2.6.5"), pip requirements ("tensorflow==2.16.2"),
            or "" for the default of the Python version.
        version_info: (major, minor, ...), as sys.version_info.

    Raises:
        ValueError: it is none of these, or that TensorFlow does not run on that Python.
    """
    option = option.strip()
    if not option:
        return tensorflow_for_python(version_info)
    for lane in LANES:
        requirements = lane_requirements(lane)
        if option == lane or requirements[0].endswith("==" + option):
            _check_python(lane, version_info)
            return requirements
    if not option[0].isdigit():
        if not option.startswith("tensorflow"):
            raise ValueError(
                "TF=%s is no TensorFlow: expected one of %s, a version such as 2.15.1, or pip "
                'requirements such as "tensorflow==2.16.2"' % (option, ", ".join(sorted(LANES)))
            )
        return option.split()
    distribution = "tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"
    if int(option.split(".")[0]) < 2:
        # The versions before 2 have no slim distribution for every release, and the table's bounds.
        return ["tensorflow==" + option, "protobuf<3.21", "numpy<1.19"]
    return ["%s==%s" % (distribution, option)]
