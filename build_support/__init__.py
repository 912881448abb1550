"""What setup.py needs to build the native libraries. Never installed, never imported at run time.

`tensorflow_finder` finds the TensorFlow of the target environment without importing it,
`supported` holds the table of Python and TensorFlow versions, `checks` the sentences a person gets
when something is missing, and `native` runs CMake.
"""
