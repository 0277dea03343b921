"""What lies between methods and models: each concern is a wrapper of a port."""
