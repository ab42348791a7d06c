"""What a writer is told of a proposal, and what outcomes look like to people and to analysis."""
