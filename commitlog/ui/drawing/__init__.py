"""Pictures as numbers: where each bar, dot and line is. Templates write them as SVG."""
