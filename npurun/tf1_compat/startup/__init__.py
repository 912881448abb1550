"""The folder that `npurun --tf1` puts on PYTHONPATH. See npurun.tf1_compat."""
