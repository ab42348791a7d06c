"""Where the log is: the border that programs are written against, and the log on a broker behind it."""
