"""Generated from schemas/: the bytes of the values in `domain.model.records`, one module for each schema."""
