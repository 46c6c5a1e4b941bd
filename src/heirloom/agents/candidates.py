def best(candidates, start, delta):
    return None
