"""Removes repeated files among the graphs that a device's graph compiler wrote.

python -m npu_device.utils.file_deduplication --dir FOLDER
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
from typing import Dict, Iterable, Optional, Sequence

__all__ = ["PATTERN_0", "PATTERN_1", "get_file_hash", "is_dump_graph", "remove_duplicate_files"]

#: What the names of these files look like.
PATTERN_0 = r"^ge.*\.txt$"
PATTERN_1 = r"^ge.*\.pbtxt$"

_BLOCK = 1 << 20


def get_file_hash(filename: str) -> str:
    """Returns the SHA-256 of what a file holds, in hexadecimal digits.

    Args:
        filename: path of the file.

    Raises:
        OSError: the file cannot be read.

    Source of the contract: CANN TF Adapter, npu_device.utils.file_deduplication.
    """
    found = hashlib.sha256()
    with open(filename, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            found.update(block)
    return found.hexdigest()


def remove_duplicate_files(files_to_remove: Iterable[str]) -> None:
    """Removes each file that holds the same as one before it, and prints which.

    Args:
        files_to_remove: paths of the files. The first one of those that are equal stays; a file
            that is listed twice is one file.

    Raises:
        OSError: a file cannot be read or removed.

    Source of the contract: CANN TF Adapter, npu_device.utils.file_deduplication.
    """
    kept: Dict[str, str] = {}
    for path in dict.fromkeys(os.path.realpath(path) for path in files_to_remove):
        first = kept.setdefault(get_file_hash(path), path)
        if first != path:
            print(f"Removed {path}, which holds the same as {first}")
            os.remove(path)


def is_dump_graph(filename: str) -> bool:
    """Returns whether a file is one of these, by its name.

    Args:
        filename: name of the file, without its folder.

    Source of the contract: CANN TF Adapter, npu_device.utils.file_deduplication.
    """
    return bool(re.match(PATTERN_0, filename) or re.match(PATTERN_1, filename))


def _main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("-d", "--dir", required=True, help="folder to search, with those below")
    folder = parser.parse_args(arguments).dir
    if not os.path.isdir(folder):
        parser.error(f"--dir {folder} is no folder")
    remove_duplicate_files(
        os.path.join(directory, name)
        for directory, _, names in sorted(os.walk(folder))
        for name in sorted(names)
        if is_dump_graph(name)
    )


if __name__ == "__main__":
    _main()
