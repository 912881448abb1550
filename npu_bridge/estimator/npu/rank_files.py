"""Files of another rank than 0: it writes none where rank 0 does."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Optional

from npu_device._core import checkpoint_files


class RankFiles:
    """A temporary folder of this rank, which goes with the object, and what it reads.

    Attributes:
        checkpoint: path of the checkpoint that rank 0 shared last; None before it did.
    """

    def __init__(self) -> None:
        self.checkpoint: Optional[str] = None
        self._root: Optional[str] = None

    def folder(self, name: str) -> str:
        """Returns the path of a folder in the temporary one.

        Args:
            name: of the folder.
        """
        if self._root is None:
            self._root = tempfile.mkdtemp(prefix="npu_bridge_estimator_")
            weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
        path = os.path.join(self._root, name)
        os.makedirs(path, exist_ok=True)
        return path

    def share(self, latest: Optional[str]) -> None:
        """Learns where this rank finds rank 0's newest checkpoint. All ranks call.

        Args:
            latest: its path, on rank 0; None for none, and on other ranks.
        """
        self.checkpoint = checkpoint_files.share(latest, lambda: self.folder("checkpoint"))
