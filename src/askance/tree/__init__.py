"""Search over states that grow: generic, one call a search, nothing kept between calls."""
