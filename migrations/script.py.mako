"""${message}

Revision: ${up_revision}
Follows: ${down_revision | comma,n}
"""

from __future__ import annotations

from alembic import op
import sqlalchemy as sa
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None

# The oldest revision whose code can still work with the tables that this one leaves.
COMPATIBLE_FROM = revision


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
    statement = sa.text("UPDATE poolsql.schema_information SET compatible_from = :revision")
    op.execute(statement.bindparams(revision=COMPATIBLE_FROM))


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
