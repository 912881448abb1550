"""JSON files that people write: read with limits, and errors that name the path to each value."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from typing import Any, Dict

MAX_FILE_BYTES = 16 * 1024 * 1024
_MAX_UINT32 = 2**32 - 1


class JsonFileError(ValueError):
    """A file that cannot be used. The text names file, JSON path, what was found and is allowed."""


def error(what: str, file: str, json_path: str, found: str, allowed: str) -> JsonFileError:
    """Makes the error for one value of a file; all of ours have this form.

    Args:
        what: what the file is, such as "Rank table".
        file: its path.
        json_path: the path to the value in it, such as "$.server_list[0]".
        found: what is there, in words.
        allowed: what may be there, in words.

    Returns:
        The error, to raise.
    """
    return JsonFileError(f"{what} {file!r}: {json_path} is {found}, allowed is {allowed}.")


def shown(value: Any) -> str:
    """Returns a value as an error shows it: as JSON, shortened."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)} entries" if value else "an empty list"
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def read(file: str, what: str) -> str:
    """Reads a text file of limited size.

    Args:
        file: path of a regular file; one named through /proc/<pid>/fd is fine.
        what: what the file is, for errors.

    Returns:
        Its text, without a byte order mark.

    Raises:
        JsonFileError: it cannot be read, is larger than MAX_FILE_BYTES, or is not UTF-8.
    """

    def refused(found: str) -> JsonFileError:
        return error(what, file, "$", found, "a JSON file in UTF-8 of at most 16 MB")

    try:
        # Without O_NONBLOCK a FIFO that nobody writes to would block open() for ever.
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise refused("a directory")
            if not stat.S_ISREG(mode):
                raise refused("not a regular file")
            with open(descriptor, "rb", closefd=False) as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as cause:
        if cause.errno == errno.ENOENT:
            raise refused("a file that does not exist") from cause
        raise refused(f"a file that cannot be read: {cause.strerror}") from cause
    if len(data) > MAX_FILE_BYTES:
        raise refused("a file of more than 16 MB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        found = f"not UTF-8: byte {data[cause.start]:#04x} at offset {cause.start}"
        raise refused(found) from cause


class Node:
    """A value in a file together with the path that leads to it."""

    def __init__(self, what: str, file: str, path: str, value: Any) -> None:
        self.what = what
        self.file = file
        self.path = path
        self.value = value

    def error(self, allowed: str, found: str | None = None) -> JsonFileError:
        """Makes the error that says what this value may be, and what it is unless `found` does."""
        return error(
            self.what, self.file, self.path, shown(self.value) if found is None else found, allowed
        )

    def check_object(self) -> None:
        """Checks that this value is an object that has each key once."""
        if not isinstance(self.value, dict):
            raise self.error("an object")
        repeated = getattr(self.value, "repeated", None)
        if repeated is not None:
            found = f"an object with the key {shown(repeated)} twice"
            raise self.error("an object that has each key once", found)

    def has(self, name: str) -> bool:
        """Whether this object has the key `name`."""
        return name in self.value

    def child(self, name: str) -> Node:
        """Returns the value at the key `name`, which is required."""
        node = self._at("." + name, self.value.get(name))
        if name not in self.value:
            raise node.error("a value, since it is required", "missing")
        return node

    def entries(self, name: str) -> list[Node]:
        """Returns the entries of the list at `name`, which is not empty and holds objects."""
        node = self.child(name)
        if not isinstance(node.value, list) or not node.value:
            raise node.error("a list of at least one entry")
        found = [node._at(f"[{i}]", value) for i, value in enumerate(node.value)]
        for entry in found:
            entry.check_object()
        return found

    def integer(self, low: int, high: int) -> int:
        """Returns this value as an integer in [low, high]; a string of digits is one too."""
        number = self.value
        if isinstance(number, str) and re.match(r"[0-9]{1,10}\Z", number):
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise self.error(f"an integer from {low} to {high}")
        return number

    def text(self, most_bytes: int) -> str:
        """Returns this value as a string that is not empty; an integer is taken by its digits."""
        text = self.value
        if isinstance(text, int) and not isinstance(text, bool):
            text = str(text)
        # JSON can spell half of a surrogate pair, which has no UTF-8 form.
        bytes_used = len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0
        if not 1 <= bytes_used <= most_bytes:
            raise self.error(f"a string of 1 to {most_bytes} bytes")
        return str(text)

    def check_count(self, name: str, length: int, of: str) -> None:
        """Checks that the key `name`, where there is one, gives the length of a list.

        Args:
            name: the key that holds the count.
            length: the length of the list.
            of: what the list holds, for the error.
        """
        if self.has(name):
            node = self.child(name)
            if node.integer(0, _MAX_UINT32) != length:
                raise node.error(f"{length}, the number of {of}")

    def _at(self, step: str, value: Any) -> Node:
        return Node(self.what, self.file, self.path + step, value)


class _Object(Dict[str, Any]):
    """A JSON object that remembers a key that it was given twice: one of the values was lost."""

    repeated: str | None = None


def decode(text: str, file: str, what: str) -> Node:
    """Parses a text whose top value must be an object.

    Args:
        text: the JSON text.
        file: the path to name in errors.
        what: what the file is, for errors.

    Returns:
        The top value, with the path "$".

    Raises:
        JsonFileError: the text is not JSON, or not an object.
    """

    def make_object(pairs: list[tuple[str, Any]]) -> _Object:
        made = _Object(pairs)
        if len(made) != len(pairs):
            seen = set()
            for key, _ in pairs:
                if key in seen:
                    made.repeated = key
                seen.add(key)
        return made

    def make_integer(digits: str) -> int:
        # int() takes quadratic time, and nobody writes such numbers.
        if len(digits) > 20:
            raise ValueError(f"a number of {len(digits)} digits")
        return int(digits)

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON value")

    try:
        value = json.loads(
            text, object_pairs_hook=make_object, parse_int=make_integer, parse_constant=refuse
        )
    except json.JSONDecodeError as cause:
        found = f"not JSON at line {cause.lineno}, column {cause.colno} ({cause.msg})"
        raise error(what, file, "$", found, "a JSON object") from cause
    except ValueError as cause:
        raise error(what, file, "$", f"not JSON ({cause})", "a JSON object") from cause
    except RecursionError as cause:
        raise error(what, file, "$", "nested too deeply", "a JSON object") from cause
    top = Node(what, file, "$", value)
    top.check_object()
    return top
