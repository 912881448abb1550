"""Functions of npu_device in functional models of Keras: made, saved and loaded by name.

A model that holds one loads in a process that has imported the function's module, since the name is
looked up among those registered. With Keras 3 these layers work in models saved as .keras, too.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Union

import tensorflow.compat.v1 as tf

from npu_device._core import device_options, keras_functional

__all__ = [
    "NpuOpLambda",
    "get_npu_symbol_from_name",
    "get_one_name_for_npu_symbol",
    "npu_functional_support",
    "npu_symbol_register",
]

_NAMES = "npu_api_names"

_functions: Dict[str, Callable[..., Any]] = {}


def npu_symbol_register(names: Union[str, List[str], None], func: Callable[..., Any]) -> Any:
    """Gives a function names by which models are saved and loaded.

    Args:
        names: a name or several, such as "npu.ops.gelu"; none changes nothing.
        func: the function.

    Returns:
        The function.

    Source of the contract: CANN TF Adapter, npu_device.utils.npu_wrapper.
    """
    if names:
        for name in [names] if isinstance(names, str) else names:
            _functions[name] = func
        setattr(func, _NAMES, names)
    return func


def get_npu_symbol_from_name(name: str) -> Optional[Callable[..., Any]]:
    """Returns the function of a name, None if there is none.

    Args:
        name: a name that npu_symbol_register was given.

    Source of the contract: CANN TF Adapter, npu_device.utils.npu_wrapper.
    """
    return _functions.get(name)


def get_one_name_for_npu_symbol(symbol: Callable[..., Any]) -> Optional[str]:
    """Returns the first name of a function, None if it has none.

    Args:
        symbol: the function.

    Source of the contract: CANN TF Adapter, npu_device.utils.npu_wrapper.
    """
    names = getattr(symbol, _NAMES, None)
    return names[0] if isinstance(names, list) else names


@keras_functional.registered("npu_device.utils.npu_wrapper")
class NpuOpLambda(keras_functional.TFOpLambda):
    """A layer of a functional model that calls a function of npu_device.

    Args:
        function: the function, which npu_symbol_register has given a name.
        **kwargs: those of a Keras layer.

    Raises:
        ValueError: the function has no name.

    Source of the contract: CANN TF Adapter, npu_device.utils.npu_wrapper.
    """

    def __init__(self, function: Callable[..., Any], **kwargs: Any) -> None:
        name = get_one_name_for_npu_symbol(function)
        if name is None:
            raise ValueError(
                f"NpuOpLambda: {function!r} has no name to save it by. Call "
                f'npu_symbol_register("name", function) first.'
            )
        kwargs.setdefault("name", keras_functional.unique_name(name))
        super().__init__(function, **kwargs)
        self.symbol = name

    @classmethod
    def from_config(cls, config: Dict[str, Any], custom_objects: Any = None) -> Any:
        """Makes the layer of a saved model.

        Args:
            config: what get_config returned.
            custom_objects: not needed.

        Raises:
            ValueError: no function of this process has the name that the model holds.
        """
        del custom_objects
        name = str(config.get("function"))
        function = get_npu_symbol_from_name(name)
        if function is None:
            near = device_options.nearest(name, _functions)
            known = f" Was {near} meant?" if near else f" Known: {', '.join(sorted(_functions))}."
            raise ValueError(
                f"NpuOpLambda: the model holds the function {name}, which is not registered. "
                f"Import the module that calls npu_symbol_register for it.{known}"
            )
        return cls(**dict(config, function=function))


def npu_functional_support(op: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function that may be called on the symbolic tensors of a functional model.

    Args:
        op: a function of tensors, which npu_symbol_register has given a name.

    Returns:
        A function that calls `op`, as a layer of the model where an argument is symbolic.

    Source of the contract: CANN TF Adapter, npu_device.utils.npu_wrapper.
    """

    @functools.wraps(op)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if any(keras_functional.is_symbolic(one) for one in tf.nest.flatten([args, kwargs])):
            return NpuOpLambda(op)(*args, **kwargs)
        return op(*args, **kwargs)

    return wrapper
