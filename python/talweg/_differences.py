KEYWORDS={}
KEYWORDS_PROSE=""
DIFFERS={}
def absent(full): return None
