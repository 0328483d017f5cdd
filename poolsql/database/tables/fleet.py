"""What an operator declares: pools, launchers, proxies, profiles; and the fixed table of outcomes."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from poolsql.database.tables.definitions import declared, duration, identity, metadata, moment, words

outcomes = Table(
    "outcomes",
    metadata,
    Column("outcome", Text, primary_key=True),
    words("blames", nullable=False),
    words("profile_effect", nullable=False),
    words("host_effect", nullable=False),
    words("counts", nullable=False),
    words("retry", nullable=False),
    Column("severity", Integer, nullable=False),
    comment="How a visit or an attempt can end, whom that blames and what follows; fixed, for joins.",
)

pools = Table(
    "pools",
    metadata,
    identity(),
    Column("name", Text, nullable=False, unique=True),
    duration("ttl"),
    duration("renew"),
    duration("max_lease"),
    duration("failure_cooldown"),
    duration("failure_cooldown_cap"),
    duration("lost_cooldown"),
    duration("rest"),
    duration("hold"),
    duration("hold_cap"),
    duration("block_pause"),
    duration("rate_pause"),
    duration("site_back_off"),
    duration("site_back_off_cap"),
    duration("pause_cap"),
    Column("retire_after", Integer),
    Column("retire_rate", Float),
    Column("retire_window", Integer, nullable=False),
    Column("max_uses", Integer),
    duration("max_age", nullable=True),
    Column("target_size", Integer),
    moment("paused_at"),
    words("pause_reason"),
    moment("created_at", now=True),
    declared(),
    comment="A named set of profiles with one policy.",
)

launchers = Table(
    "launchers",
    metadata,
    identity(),
    Column("name", Text, nullable=False, unique=True),
    words("kind", nullable=False),
    Column("pins_machine", Boolean, nullable=False),
    Column("options", JSONB, nullable=False, server_default=text("'{}'")),
    Column("machines", ARRAY(Text)),
    Column("start_failures", Integer, nullable=False, server_default=text("0")),
    # Which profiles failed to start since the last good start: one bad profile must not open the breaker.
    Column("failed_profiles", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("breaker_openings", Integer, nullable=False, server_default=text("0")),
    moment("breaker_open_until"),
    words("breaker_reason"),
    moment("last_started_at"),
    moment("created_at", now=True),
    declared(),
    comment="What starts and stops a profile's browser; its breaker keeps profiles out of a vendor's outage.",
)

proxies = Table(
    "proxies",
    metadata,
    identity(),
    Column("name", Text, nullable=False, unique=True),
    words("server", nullable=False),
    words("username"),
    words("secret"),
    Column("shared", Boolean, nullable=False, server_default=text("false")),
    moment("created_at", now=True),
    declared(),
    comment="An exit, pinned to one profile unless declared shared. The secret is a reference, never the value.",
)

profiles = Table(
    "profiles",
    metadata,
    identity(),
    Column("pool_id", BigInteger, ForeignKey("poolsql.pools.id"), nullable=False),
    Column("launcher_id", BigInteger, ForeignKey("poolsql.launchers.id"), nullable=False),
    Column("proxy_id", BigInteger, ForeignKey("poolsql.proxies.id")),
    # A proxy that is not shared occupies this unique column, so two profiles can't pin it whatever the race.
    Column("exclusive_proxy_id", BigInteger, unique=True),
    words("key", nullable=False),
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("options", JSONB, nullable=False, server_default=text("'{}'")),
    words("seed"),
    words("machine"),
    Column("directory", Text),
    Column("state", Text, nullable=False, server_default=text("'active'")),
    words("state_reason"),
    moment("state_changed_at", now=True),
    words("state_changed_by"),
    # NULL while a lease row exists. Otherwise the moment from which the profile is offered.
    Column("available_at", DateTime(timezone=True), server_default=text("clock_timestamp()")),
    words("waits_for"),
    moment("hold_until"),
    Column("consecutive_failures", Integer, nullable=False, server_default=text("0")),
    Column("consecutive_holds", Integer, nullable=False, server_default=text("0")),
    Column("consecutive_crashes", Integer, nullable=False, server_default=text("0")),
    Column("consecutive_losses", Integer, nullable=False, server_default=text("0")),
    Column("uses", BigInteger, nullable=False, server_default=text("0")),
    words("last_outcome"),
    moment("last_released_at"),
    moment("last_success_at"),
    moment("needs_person_since"),
    # Uses, age and failure rate count from here: creation, or the last restore.
    moment("judged_from", now=True),
    moment("created_at", now=True),
    declared(),
    UniqueConstraint("launcher_id", "key"),
    UniqueConstraint("machine", "directory"),
    CheckConstraint("state IN ('new', 'active', 'paused', 'retired')", name="state"),
    CheckConstraint("waits_for IN ('rest', 'cooldown', 'hold')", name="waits_for"),
    Index("profiles_offer_idx", "pool_id", "available_at", postgresql_where=text("state = 'active'")),
    Index("profiles_proxy_id_idx", "proxy_id"),
    comment="One browser identity, with what checkout must see in the row that it locks.",
    postgresql_with={"fillfactor": "70", "autovacuum_vacuum_scale_factor": "0.02"},
)

profile_tags = Table(
    "profile_tags",
    metadata,
    Column("tag", Text, primary_key=True),
    Column("profile_id", BigInteger, ForeignKey("poolsql.profiles.id", ondelete="CASCADE"), primary_key=True),
    Index("profile_tags_profile_id_idx", "profile_id"),
    comment="The tags of profiles once more, to find the few that carry a rare one.",
)
