"""Is one run better than another, or is it chance?"""
