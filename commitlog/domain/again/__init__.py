"""Deciding again what was decided: is every answer what the rules give, and what would have let a proposal through?"""
