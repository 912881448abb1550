"""Profiles of parts of a script."""
