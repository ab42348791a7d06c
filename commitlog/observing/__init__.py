"""What those who look after a log are told of it: how long things took, how far behind who reads is, and spans for tracing."""
