"""What runs: the service's processes, the supervisor that keeps them running, and how they are."""
