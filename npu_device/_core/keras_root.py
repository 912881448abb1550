"""Which Keras an object is of: that of TensorFlow 1, Keras 2, tf-keras, or Keras 3."""

from __future__ import annotations

import re
from typing import Any, Optional

# keras, keras.src, tf_keras.src, tensorflow.python.keras, tensorflow_core.python.keras.
_MODULE = re.compile(r"((?:tensorflow(?:_core)?\.python\.|tf_)?keras(?:\.src)?)(?:\.|\Z)")


def of(instance: Any) -> Optional[str]:
    """Returns the package that holds the modules of an object's Keras; None if it is of none.

    Args:
        instance: such as an optimizer. Its class may be derived from one of Keras.
    """
    found = (_MODULE.match(one.__module__) for one in type(instance).__mro__)
    return next((match.group(1) for match in found if match), None)


def is_keras_3(optimizer: Any) -> bool:
    """Returns whether an optimizer is one of Keras 3."""
    return callable(getattr(type(optimizer), "_backend_apply_gradients", None))
