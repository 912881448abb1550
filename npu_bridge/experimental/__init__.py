"""Names that are published as experimental."""
