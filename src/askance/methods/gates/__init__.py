"""Gates: functions of signals about a question that decide whether a search is worth it."""
