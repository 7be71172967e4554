"""Tables and functions of a store in PostgreSQL.

The tables are those of SQLite (`memory/store/sqlite/sqlite_schema.py` says what each is for), so that the same
statements run on both. The functions are those of SQLite's that the statements use; text is compared by its bytes.
"""

from __future__ import annotations

# Tables with a column `tenant`, whose rows are visible only to that tenant's connections (HOST-5).
GUARDED = (
    *("tenants", "records", "memberships", "deleted", "versions"),
    *("bodies", "vectors", "tokens", "pieces", "record_tags", "fts", "attribute_values", "recalls"),
)
# The parts of a record get its tenant when they are written.
_PARTS = ("bodies", "vectors", "tokens", "pieces", "record_tags", "fts", "recalls")
TENANT_SETTING = "recall_loop.tenant"
# Values of the setting: all tenants, or one, whose name follows.
ALL_TENANTS, ONE_TENANT = "*", "="
_TEXT = 'text COLLATE "C"'

# JSONB can't hold a NUL character, which a record's JSON escapes: U+FFFD replaces it.
_FUNCTIONS = rf"""
CREATE FUNCTION json_of(body text) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN strpos(body, '\u0000') = 0 THEN CAST(body AS jsonb)
  ELSE CAST(regexp_replace(body, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') AS jsonb) END;
CREATE FUNCTION json_at(body text, path text) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN json_of(body) #> string_to_array(substr(path, 3), '.');
CREATE FUNCTION json_extract(body text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN json_at(body, path) #>> '{{}}';
CREATE FUNCTION json_kind(value jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value) WHEN 'string' THEN 'text' WHEN 'number' THEN 'real' WHEN 'boolean' THEN value #>> '{{}}'
  ELSE jsonb_typeof(value) END;
CREATE FUNCTION json_type(body text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN json_kind(json_at(body, path));
CREATE FUNCTION json_members(list jsonb) RETURNS TABLE (value text, type text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 20
BEGIN ATOMIC
  SELECT e.value #>> '{{}}', json_kind(e.value)
  FROM jsonb_array_elements(CASE WHEN jsonb_typeof(list) = 'array' THEN list ELSE '[]' END) AS e (value);
END;
CREATE FUNCTION json_each(list text) RETURNS TABLE (value text, type text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 20
BEGIN ATOMIC
  SELECT m.value, m.type FROM json_members(json_of(list)) m;
END;
CREATE FUNCTION json_each(body text, path text) RETURNS TABLE (value text, type text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 20
BEGIN ATOMIC
  SELECT m.value, m.type FROM json_members(json_at(body, path)) m;
END;
CREATE FUNCTION instr(whole text, part text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN strpos(whole, part);
CREATE FUNCTION hashes_of(words text[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
  SELECT coalesce(array_agg(DISTINCT hashtextextended(w.word, 0)), '{{}}') FROM unnest(words) AS w (word);
END;
CREATE FUNCTION is_visible(tenant text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
RETURN current_setting('{TENANT_SETTING}', true) IN ('{ALL_TENANTS}', '{ONE_TENANT}' || tenant);
"""

# An index entry has at most 2,700 bytes.
_CHARACTERS = 200
# A number's key is that of its double, whose bits sort like it, inverted for negative ones.
_ATTRIBUTE_KEYS = f"""
CREATE FUNCTION double_of(number numeric) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number > 1.7976931348623157e308 THEN 'Infinity' WHEN number < -1.7976931348623157e308 THEN '-Infinity'
  ELSE CAST(number AS double precision) + 0.0 END;
CREATE FUNCTION number_key(number double precision) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN number >= 0 THEN 'n1' || encode(float8send(number), 'hex')
  ELSE 'n0' || translate(encode(float8send(number), 'hex'), '0123456789abcdef', 'fedcba9876543210') END;
CREATE FUNCTION attribute_key(value jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value) WHEN 'string' THEN 's' || left(value #>> '{{}}', {_CHARACTERS})
  WHEN 'number' THEN number_key(double_of(CAST(value #>> '{{}}' AS numeric)))
  WHEN 'boolean' THEN 'b' || (value #>> '{{}}') WHEN 'null' THEN 'z' ELSE 'o' END;
"""

# A count that arrives while its record is being deleted waits for the deletion, and fails: nothing of it stays.
_RECALLS = f"""
CREATE TABLE recalls (
  rowid bigint PRIMARY KEY REFERENCES records ON DELETE CASCADE, times bigint NOT NULL, last_at bigint NOT NULL,
  tenant {_TEXT}
);
"""
_TABLES = f"""
CREATE TABLE meta (key {_TEXT} PRIMARY KEY, value {_TEXT} NOT NULL);
CREATE TABLE tenants (tenant {_TEXT} PRIMARY KEY, version bigint NOT NULL, horizon bigint NOT NULL DEFAULT 0);
CREATE SEQUENCE rowids;
CREATE SEQUENCE commits;
CREATE TABLE records (
  rowid bigint PRIMARY KEY DEFAULT nextval('rowids'),
  tenant {_TEXT} NOT NULL, id {_TEXT} NOT NULL, key {_TEXT} NOT NULL UNIQUE, kind {_TEXT} NOT NULL,
  agent_id {_TEXT}, group_id {_TEXT}, user_id {_TEXT}, conversation_id {_TEXT}, session {_TEXT},
  position bigint, role {_TEXT}, label {_TEXT}, fact_type {_TEXT}, created_at bigint,
  place {_TEXT} NOT NULL, thread {_TEXT}, order_key {_TEXT} NOT NULL,
  valid_until bigint, superseded_by {_TEXT}, slot {_TEXT},
  terms integer NOT NULL DEFAULT 0, window_terms integer NOT NULL DEFAULT 0,
  revision bigint NOT NULL DEFAULT 1, state integer NOT NULL DEFAULT 1,
  changed bigint NOT NULL DEFAULT 0,
  expires_at bigint, acts integer NOT NULL DEFAULT 0,
  commit_number bigint NOT NULL DEFAULT 0, checksum bigint,
  claimed_until bigint NOT NULL DEFAULT 0, claimed_by text,
  UNIQUE (tenant, id)
);
CREATE INDEX records_kind ON records (tenant, kind);
CREATE INDEX records_agent ON records (tenant, agent_id);
CREATE INDEX records_group ON records (tenant, group_id);
CREATE INDEX records_user ON records (tenant, user_id);
CREATE INDEX records_conversation ON records (tenant, conversation_id);
CREATE INDEX records_time ON records (tenant, created_at);
CREATE INDEX records_thread ON records (thread, order_key, rowid) WHERE thread IS NOT NULL;
CREATE INDEX records_pending ON records (rowid) WHERE state = 1;
CREATE INDEX records_changed ON records (tenant, changed);
CREATE INDEX records_slot ON records (tenant, slot) WHERE slot IS NOT NULL;
CREATE INDEX records_superseded ON records (tenant, superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX records_expiry ON records (tenant, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE bodies (
  rowid bigint PRIMARY KEY, record {_TEXT} NOT NULL, terms {_TEXT} NOT NULL, "window" {_TEXT} NOT NULL,
  tenant {_TEXT}
);
CREATE TABLE vectors (rowid bigint PRIMARY KEY, own bytea NOT NULL, context bytea NOT NULL, tenant {_TEXT});
CREATE TABLE tokens (rowid bigint PRIMARY KEY, vectors bytea NOT NULL, tenant {_TEXT});
CREATE TABLE pieces (rowid bigint PRIMARY KEY, vectors bytea NOT NULL, tenant {_TEXT});
ALTER TABLE vectors ALTER own SET STORAGE EXTERNAL, ALTER context SET STORAGE EXTERNAL;
ALTER TABLE tokens ALTER vectors SET STORAGE EXTERNAL;
ALTER TABLE pieces ALTER vectors SET STORAGE EXTERNAL;
CREATE TABLE record_tags (record bigint NOT NULL, tag {_TEXT} NOT NULL, tenant {_TEXT}, PRIMARY KEY (tag, record));
CREATE INDEX record_tags_row ON record_tags (record);
CREATE TABLE memberships (
  tenant {_TEXT} NOT NULL, agent_id {_TEXT} NOT NULL, group_id {_TEXT} NOT NULL, records bigint NOT NULL,
  PRIMARY KEY (tenant, agent_id, group_id)
);
CREATE INDEX memberships_group ON memberships (tenant, group_id, agent_id);
CREATE TABLE tombstones (
  key {_TEXT} PRIMARY KEY, commit_number bigint NOT NULL, state integer NOT NULL DEFAULT 1,
  claimed_until bigint NOT NULL DEFAULT 0, claimed_by text
);
CREATE INDEX tombstones_pending ON tombstones (key) WHERE state = 1;
CREATE TABLE deleted (
  tenant {_TEXT} NOT NULL, version bigint NOT NULL, rowid bigint NOT NULL, PRIMARY KEY (tenant, version, rowid)
);
CREATE TABLE versions (
  rowid bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  tenant {_TEXT} NOT NULL, id {_TEXT} NOT NULL, number bigint NOT NULL, changed_at bigint NOT NULL,
  actor {_TEXT}, action {_TEXT} NOT NULL, before {_TEXT} NOT NULL, after {_TEXT} NOT NULL,
  UNIQUE (tenant, id, number)
);
CREATE INDEX versions_time ON versions (changed_at);
CREATE INDEX versions_before ON versions (tenant, json_extract(before, '$.superseded_by'))
  WHERE json_extract(before, '$.superseded_by') IS NOT NULL;
CREATE INDEX versions_after ON versions (tenant, json_extract(after, '$.superseded_by'))
  WHERE json_extract(after, '$.superseded_by') IS NOT NULL;
CREATE TABLE fts (rowid bigint PRIMARY KEY, facets {_TEXT} NOT NULL, "window" {_TEXT} NOT NULL, tenant {_TEXT});
CREATE TABLE attribute_values (
  path integer NOT NULL, tenant {_TEXT} NOT NULL, value {_TEXT} NOT NULL, record bigint NOT NULL,
  PRIMARY KEY (path, tenant, value, record)
);
CREATE INDEX attribute_values_record ON attribute_values (record);
CREATE TABLE postings (rowid bigint PRIMARY KEY, words bigint[] NOT NULL);
CREATE INDEX postings_words ON postings USING gin (words);
"""

# A claim (`memory/store/shared/outbox.py`) belongs to a key: it passes from a record to its deletion, and back.
_TRIGGERS = """
CREATE FUNCTION note_membership() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    UPDATE memberships SET records = records - 1
      WHERE tenant = old.tenant AND agent_id = old.agent_id AND group_id = old.group_id;
    DELETE FROM memberships WHERE tenant = old.tenant AND agent_id = old.agent_id
      AND group_id = old.group_id AND records <= 0;
  END IF;
  IF TG_OP <> 'DELETE' AND new.agent_id IS NOT NULL AND new.group_id IS NOT NULL THEN
    INSERT INTO memberships VALUES (new.tenant, new.agent_id, new.group_id, 1)
      ON CONFLICT (tenant, agent_id, group_id) DO UPDATE SET records = memberships.records + 1;
  END IF;
  RETURN NULL;
END $$;
CREATE FUNCTION take_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT t.claimed_until, t.claimed_by INTO new.claimed_until, new.claimed_by
    FROM tombstones t WHERE t.key = new.key FOR UPDATE;
  new.claimed_until := coalesce(new.claimed_until, 0);
  RETURN new;
END $$;
CREATE FUNCTION forget_parts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF old.claimed_until > 0 THEN
    INSERT INTO tombstones VALUES (old.key, old.commit_number, 1, old.claimed_until, old.claimed_by)
      ON CONFLICT (key) DO UPDATE SET claimed_until = excluded.claimed_until, claimed_by = excluded.claimed_by
      WHERE tombstones.claimed_until <= excluded.claimed_until;
  END IF;
  DELETE FROM bodies WHERE rowid = old.rowid;
  DELETE FROM vectors WHERE rowid = old.rowid;
  DELETE FROM tokens WHERE rowid = old.rowid;
  DELETE FROM pieces WHERE rowid = old.rowid;
  DELETE FROM record_tags WHERE record = old.rowid;
  DELETE FROM fts WHERE rowid = old.rowid;
  DELETE FROM versions WHERE tenant = old.tenant AND id = old.id;
  RETURN NULL;
END $$;
CREATE FUNCTION take_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'record_tags' THEN
    new.tenant := (SELECT r.tenant FROM records r WHERE r.rowid = new.record);
  ELSE
    new.tenant := (SELECT r.tenant FROM records r WHERE r.rowid = new.rowid);
  END IF;
  RETURN new;
END $$;
CREATE FUNCTION index_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    DELETE FROM postings WHERE rowid = old.rowid;
  ELSE
    INSERT INTO postings VALUES (new.rowid, hashes_of(
      string_to_array('#' || replace(new.facets, ' ', ' #') || ' ' || new."window", ' ')));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER words AFTER INSERT OR DELETE ON fts FOR EACH ROW EXECUTE FUNCTION index_words();
CREATE TRIGGER claims BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION take_claim();
CREATE TRIGGER joins AFTER INSERT ON records FOR EACH ROW
  WHEN (new.agent_id IS NOT NULL AND new.group_id IS NOT NULL) EXECUTE FUNCTION note_membership();
CREATE TRIGGER moves AFTER UPDATE OF agent_id, group_id ON records FOR EACH ROW
  WHEN (old.agent_id IS DISTINCT FROM new.agent_id OR old.group_id IS DISTINCT FROM new.group_id)
  EXECUTE FUNCTION note_membership();
CREATE TRIGGER leaves AFTER DELETE ON records FOR EACH ROW EXECUTE FUNCTION note_membership();
CREATE TRIGGER leaves_parts AFTER DELETE ON records FOR EACH ROW EXECUTE FUNCTION forget_parts();
"""

# A connection sees nothing until the setting names a tenant, or all. This holds for the owner of the tables, but not
# for a superuser: a service should not connect as one. `postings` has no words, only their hashes: an inverted
# index can't be used behind a policy.
_POLICY = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
CREATE POLICY one_tenant ON {table} USING (is_visible(tenant));
"""
_BELONGS = "CREATE TRIGGER belongs BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION take_tenant();\n"
_POLICIES = "".join(_POLICY.format(table=table) for table in GUARDED) + "".join(
    _BELONGS.format(table=table) for table in _PARTS
)

DDL = _FUNCTIONS + _ATTRIBUTE_KEYS + _TABLES + _RECALLS + _TRIGGERS + _POLICIES

# Created while everything is embedded again, and dropped afterwards. No key refers to `records`: dropping it would lock
# out readers.
_REEMBEDDED = f"""
CREATE TABLE reembedded (
  rowid bigint PRIMARY KEY, target {_TEXT} NOT NULL, checksum bigint NOT NULL,
  own bytea NOT NULL, tokens bytea, pieces bytea NOT NULL, tenant {_TEXT}
);
ALTER TABLE reembedded ALTER own SET STORAGE EXTERNAL, ALTER tokens SET STORAGE EXTERNAL,
  ALTER pieces SET STORAGE EXTERNAL;
"""
_GUARDED_STAGING = _REEMBEDDED + _POLICY.format(table="reembedded") + _BELONGS.format(table="reembedded")
STAGING = tuple(statement for statement in _GUARDED_STAGING.split(";\n") if statement.strip())

# Earlier versions counted no recalls.
UPGRADE_6_TO_7 = (_RECALLS, _POLICY.format(table="recalls"), _BELONGS.format(table="recalls"))
