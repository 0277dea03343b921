"""Simulations of the asyncio parts of askance in virtual time, in which a seed is a timeline."""
