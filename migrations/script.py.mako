"""${message}

Revision: ${up_revision}
Follows: ${down_revision | comma,n}
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None

# The oldest revision whose code can still work with the tables that this one leaves.
COMPATIBLE_FROM = revision


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
    set_compatible_from(COMPATIBLE_FROM)


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
    set_compatible_from(down_revision)


def set_compatible_from(oldest: str) -> None:
    statement = sa.text("UPDATE poolsql.schema_information SET compatible_from = :oldest")
    op.execute(statement.bindparams(oldest=oldest))
