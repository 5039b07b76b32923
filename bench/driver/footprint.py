def run(*a): return []
def table(a): return []
