"""A whole service under real faults, and a checker that reads what they left from the beginning."""
