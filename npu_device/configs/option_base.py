"""An option and a group of options: what they hold, and what may be assigned to them."""

from __future__ import annotations

import numbers
import os
from typing import Any, Dict, List, Optional, Sequence

from npu_device._core import device_options

__all__ = ["DeprecatedValue", "NpuBaseConfig", "OptionValue"]


class OptionValue:
    """The value of an option.

    Args:
        default: what it is until something is assigned.
        optional: a list or tuple of the values that are allowed; None if any is.

    Source of the contract: CANN TF Adapter, npu_device.configs.option_base.
    """

    def __init__(self, default: Any, optional: Optional[Sequence[Any]]) -> None:
        self._default = default
        self._optional = optional
        self._value = default

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._value!r})"

    @property
    def default(self) -> Any:
        """What the option is until something is assigned."""
        return self._default

    @property
    def optional(self) -> Optional[Sequence[Any]]:
        """The values that are allowed; None if any is."""
        return self._optional

    @property
    def value(self) -> Optional[str]:
        """The value as a text, "1" for True and "0" for False; None if there is none.

        Raises:
            TypeError: on assignment, the value is not allowed and of another type than the default.
            ValueError: on assignment, the value is not allowed.
        """
        if self._value is None:
            return None
        text = str(self._value)  # a bool of Python or of NumPy
        return {"True": "1", "False": "0"}.get(text, text)

    @value.setter
    def value(self, v: Any) -> None:
        self.assign(v, "The value")

    def assign(self, value: Any, what: str) -> None:
        """Assigns a value.

        Args:
            value: the value.
            what: what error texts call the option.

        Raises:
            TypeError: the value is not allowed and of another type than the default.
            ValueError: the value is not allowed.
        """
        if isinstance(self._optional, (list, tuple)) and value not in self._optional:
            allowed = ", ".join(repr(one) for one in self._optional)
            near = device_options.nearest(value, self._optional)
            meant = f" Was {near!r} meant?" if near else ""
            wrong_type = self._default is not None and not isinstance(value, type(self._default))
            raise (TypeError if wrong_type else ValueError)(
                f"{what} is {value!r} of type {type(value).__name__}, allowed is one of "
                f"{allowed}.{meant}"
            )
        self._value = value


class DeprecatedValue(OptionValue):
    """The value of an option that newer releases do without.

    Args:
        optional: a list or tuple of the values that are allowed; None if any is.
        replacement: the option to use instead; None if there is none.

    Source of the contract: CANN TF Adapter, npu_device.configs.option_base.
    """

    def __init__(self, optional: Optional[Sequence[Any]], *, replacement: Optional[str]) -> None:
        super().__init__(None, optional)
        self.replacement = replacement


class NpuBaseConfig:
    """A group of options.

    A class derived from it gives each option or group that it adds an attribute, and then calls
    this constructor. Assigning to the attribute of an option checks and sets its value; reading it
    gives the OptionValue.

    Source of the contract: CANN TF Adapter, npu_device.configs.option_base.
    """

    _fixed_attrs: List[str]

    def __init__(self) -> None:
        for option in device_options.GROUPS.get(type(self).__name__, ()):
            if option.name not in self.__dict__:
                object.__setattr__(self, option.name, _value_of(option))
        names = [name for name, one in self.__dict__.items() if _is_option(one)]
        object.__setattr__(self, "_fixed_attrs", names)

    def __setattr__(self, key: str, value: Any) -> None:
        """Sets the value of an option.

        Raises:
            TypeError: the value is of a type that the option does not take.
            ValueError: there is no such option, or it does not take this value.
        """
        if "_fixed_attrs" not in self.__dict__:
            object.__setattr__(self, key, value)
            return
        if key not in self._fixed_attrs:
            raise ValueError(self._unknown(key))
        held = self.__dict__[key]
        what = f"{type(self).__name__} option {key}"
        if isinstance(held, OptionValue):
            self._assign(held, key, what, value)
        elif isinstance(value, type(held)):
            object.__setattr__(self, key, value)
        else:
            raise ValueError(
                f"{what} is {value!r}, and holds options of its own: assign to those, such as "
                f"{key}.{held._fixed_attrs[0]}."
            )

    def __getattr__(self, key: str) -> Any:
        # Called only for what is not there.
        if "_fixed_attrs" not in self.__dict__ or key.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {key!r}")
        raise AttributeError(self._unknown(key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.as_dict()!r})"

    def as_dict(self) -> Dict[str, str]:
        """Returns the options of this group and of those in it that have a value.

        Returns:
            A text by name; see OptionValue.value.
        """
        held = {name: self.__dict__[name] for name in self._fixed_attrs}
        options = {
            name: one.value
            for name, one in held.items()
            if isinstance(one, OptionValue) and one.value is not None
        }
        # Last: what an older release had in a group goes before the default of what replaced it.
        for one in held.values():
            if isinstance(one, NpuBaseConfig):
                options.update(one.as_dict())
        return options

    def _assign(self, held: OptionValue, key: str, what: str, value: Any) -> None:
        option = device_options.line(type(self).__name__, key)
        if option is None:
            held.assign(value, what)
            return
        if option.limits is not None:
            _check_number(value, option.limits, what)
        elif option.values is None:
            value = _text(value, what)
        held.assign(value, what)
        device_options.say_effect(type(self).__name__, option)

    def _unknown(self, key: str) -> str:
        group = type(self).__name__
        text = f"{group} has no option {key}."
        places = dict(self._places())
        if key in places:
            return f"{text} It is in a group: write {places[key]}.{key}."
        known = [*self._fixed_attrs, *places]
        near = device_options.nearest(key, known)
        if near:
            path = f"{places[near]}.{near}" if near in places else near
            return f"{text} Was {path} meant?"
        return f"{text} It has {', '.join(self._fixed_attrs)}."

    def _places(self) -> List[Any]:
        """Pairs of an option in a group below this one, and the path of the group."""
        found: List[Any] = []
        for name in self._fixed_attrs:
            held = self.__dict__[name]
            if isinstance(held, NpuBaseConfig):
                found += [(one, name) for one in held._fixed_attrs]
                found += [(one, f"{name}.{path}") for one, path in held._places()]
        return found


def _is_option(value: Any) -> bool:
    return isinstance(value, (OptionValue, NpuBaseConfig))


def _value_of(option: device_options.Option) -> OptionValue:
    allowed = None if option.values is None else [*option.values, *option.older_values]
    if option.older is not None:
        return DeprecatedValue(allowed, replacement=option.older or None)
    return OptionValue(option.default, allowed)


def _check_number(value: Any, limits: Any, what: str) -> None:
    low, high = limits
    number = value
    if isinstance(value, str):
        try:
            number = int(value)
        except ValueError:
            pass  # refused below
    if value is None:
        return
    is_number = isinstance(number, numbers.Integral) and not isinstance(number, bool)
    if not is_number or not low <= number <= high:
        raise ValueError(
            f"{what} is {value!r} of type {type(value).__name__}, allowed is a whole number from "
            f"{low} to {high}."
        )


def _text(value: Any, what: str) -> Any:
    if value is None or isinstance(value, (str, numbers.Real)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(
        f"{what} is {value!r} of type {type(value).__name__}, allowed is a text, a number, a path "
        f"or None."
    )
