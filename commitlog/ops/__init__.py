"""Operating the service: the command line, the web page, observability, and what runs all the rest."""
