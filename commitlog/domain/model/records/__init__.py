"""Generated from schemas/: the values that travel through the log, one module for each schema. See `make records`."""
