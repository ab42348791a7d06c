"""What those who look after a log are told of it: how long things took, and spans for tracing."""
