"""The lifetime of graphs on the device."""
