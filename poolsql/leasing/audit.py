"""What operators change by hand is written down: who, what, on what, and why."""

from __future__ import annotations

from sqlalchemy import Connection, insert

from poolsql.database.tables import audit
from poolsql.text import clean_text


def record(connection: Connection, *, who: str, action: str, subject: str, reason: str | None) -> None:
    """Write an entry of the audit, in the transaction that makes the change.

    What Postgres cannot keep of the texts is replaced: a command line can hold any bytes.

    Args:
        who: Whoever did it, such as ``ann@desk``.
        action: A noun and a verb, such as ``profile pause``.
        subject: The name of what was changed.
        reason: Why, in the operator's words.
    """
    values = {"who": who, "action": action, "subject": subject, "reason": reason}
    connection.execute(
        insert(audit), {name: None if text is None else clean_text(text) for name, text in values.items()}
    )
