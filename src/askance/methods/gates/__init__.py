"""Gates: functions that say from signals about a question whether a search is worth it."""
