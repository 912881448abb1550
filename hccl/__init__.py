"""The Python API of HCCL: groups of ranks (`hccl.manage.api`), gradient cuts (`hccl.split.api`).

Import paths, names and signatures are those of the package that CANN installs, so that scripts
written for Ascend devices find them. The work is done by npu_device.
"""
