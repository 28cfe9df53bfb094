"""stub"""


class Entry: ...


class Ledger: ...
