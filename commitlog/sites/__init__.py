"""Several logs, each with its own name, that take writes to the same keyed tables: links bring each one's to the others."""
