"""What looks after a log and its lake: public functions, without a command line."""
