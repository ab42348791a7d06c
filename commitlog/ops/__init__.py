"""Operating the service: the command line, health, and what runs all the rest."""
