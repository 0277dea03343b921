"""What people look at; everything here reads traces only."""
