"""Choose by trials on questions: the value of a parameter (`calibrate`), or a method (`advise`)."""
