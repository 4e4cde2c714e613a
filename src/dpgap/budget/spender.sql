-- A role for PostgreSQL that may reserve and settle, and has no right to the tables of a ledger.
-- Run it as the owner of the ledger's tables. It can be run again.
--
-- Whoever has the role works through views of the same names in the schema dpgap_spender. They show
-- a person's own entries and documents, what budgets are for, and the last entry of each book,
-- which the next one must follow. What is put in is checked here: that it follows the chain, is
-- sealed, adds up, is covered, and is a reservation or settlement in the person's own name.

DO $$ BEGIN
    CREATE ROLE dpgap_spender NOLOGIN;
EXCEPTION WHEN duplicate_object THEN
    NULL;
END $$;
CREATE SCHEMA IF NOT EXISTS dpgap_spender;

CREATE OR REPLACE FUNCTION dpgap_spender.units(said text) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog AS $$
DECLARE
    whole numeric; part numeric;
BEGIN
    IF said !~ '^-?[0-9]+(/[1-9][0-9]*)?$' THEN
        RAISE 'a number of this entry cannot be read';
    END IF;
    whole := split_part(said, '/', 1)::numeric * {unit};
    part := coalesce(nullif(split_part(said, '/', 2), ''), '1')::numeric;
    IF mod(whole, part) <> 0 THEN
        RAISE 'a number of this entry is no multiple of the unit';
    END IF;
    RETURN div(whole, part);
END $$;

CREATE OR REPLACE FUNCTION dpgap_spender.append() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    last {home}.dpgap_entries; mine jsonb; about jsonb;
    said jsonb := NEW.body::jsonb;
    before jsonb;
    charge numeric; gone numeric; own numeric;
BEGIN
    IF NEW.kind NOT IN ('reserve', 'settle') OR NEW.person <> session_user THEN
        RAISE 'this role may reserve and settle in its own name';
    END IF;
    PERFORM pg_advisory_xact_lock({lock}, hashtext(NEW.dataset));
    SELECT * INTO last FROM {home}.dpgap_entries AS e
        WHERE e.dataset = NEW.dataset ORDER BY e.number DESC LIMIT 1;
    SELECT e.body::jsonb INTO mine FROM {home}.dpgap_entries AS e
        WHERE e.dataset = NEW.dataset AND e.person = session_user ORDER BY e.number DESC LIMIT 1;
    IF last.version IS DISTINCT FROM 2 OR NEW.version <> 2 THEN
        RAISE 'this book has another layout';
    END IF;
    before := last.body::jsonb;
    IF NEW.hash <> encode(sha256(convert_to(NEW.body, 'UTF8')), 'hex')
        OR said ->> 'previous' <> last.hash OR NEW.number <> last.number + 1 THEN
        RAISE 'this entry does not follow the last one';
    END IF;
    IF (said -> 'dataset', said -> 'number', said -> 'version', said -> 'kind', said -> 'person')
        IS DISTINCT FROM (to_jsonb(NEW.dataset), to_jsonb(NEW.number), to_jsonb(NEW.version),
            to_jsonb(NEW.kind), to_jsonb(NEW.person))
        OR said ->> 'key' IS DISTINCT FROM NEW.key
        OR (said ->> 'about')::int IS DISTINCT FROM NEW.about
        OR (said -> 'granted', said -> 'closed', said -> 'bound')
            IS DISTINCT FROM (before -> 'granted', before -> 'closed', before -> 'bound')
        OR said -> 'allowance' IS DISTINCT FROM coalesce(mine -> 'allowance', 'null') THEN
        RAISE 'this entry changes what only a steward may change';
    END IF;
    IF NEW.kind = 'settle' THEN
        SELECT e.body::jsonb INTO about FROM {home}.dpgap_entries AS e
            WHERE e.dataset = NEW.dataset AND e.number = NEW.about
            AND e.kind = 'reserve' AND e.person = session_user;
        IF about IS NULL THEN
            RAISE 'this is no reservation of this person';
        END IF;
    ELSIF (before ->> 'closed')::boolean OR NEW.about IS NOT NULL THEN
        RAISE 'nothing can be reserved';
    END IF;
    FOR part IN 0..1 LOOP  -- first ε, then δ
        charge := dpgap_spender.units(said #>> ARRAY['charge', part::text]);
        gone := coalesce(dpgap_spender.units(about #>> ARRAY['charge', part::text]), 0);
        own := coalesce(dpgap_spender.units(mine #>> ARRAY['own', part::text]), 0);
        IF charge < 0 OR (NEW.kind = 'settle' AND charge > gone)
            OR dpgap_spender.units(said #>> ARRAY['used', part::text])
                <> dpgap_spender.units(before #>> ARRAY['used', part::text])
                    + (CASE NEW.kind WHEN 'settle' THEN charge ELSE 0 END)
            OR dpgap_spender.units(said #>> ARRAY['held', part::text])
                <> dpgap_spender.units(before #>> ARRAY['held', part::text]) - gone
                    + (CASE NEW.kind WHEN 'reserve' THEN charge ELSE 0 END)
            OR dpgap_spender.units(said #>> ARRAY['own', part::text]) <> own - gone + charge THEN
            RAISE 'this entry does not add up';
        END IF;
        IF dpgap_spender.units(said #>> ARRAY['used', part::text])
                + dpgap_spender.units(said #>> ARRAY['held', part::text])
                > dpgap_spender.units(said #>> ARRAY['granted', part::text])
            OR (NEW.kind = 'reserve' AND charge > 0 AND own + charge
                > dpgap_spender.units(said #>> ARRAY['allowance', part::text])) THEN
            RAISE 'this entry is not covered';
        END IF;
    END LOOP;
    INSERT INTO {home}.dpgap_entries SELECT NEW.*;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION dpgap_spender.keep() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    settled jsonb; about jsonb;
BEGIN
    SELECT e.body::jsonb INTO settled FROM {home}.dpgap_entries AS e
        WHERE e.dataset = NEW.dataset AND e.number = NEW.number AND e.person = session_user;
    SELECT e.body::jsonb INTO about FROM {home}.dpgap_entries AS e
        WHERE e.dataset = NEW.dataset AND e.number = (settled ->> 'about')::int;
    IF settled #>> '{{more,document}}'
            IS DISTINCT FROM encode(sha256(convert_to(NEW.document, 'UTF8')), 'hex')
        OR about #>> '{{more,identity}}' IS DISTINCT FROM NEW.identity THEN
        RAISE 'this document is not the one that was settled';
    END IF;
    INSERT INTO {home}.dpgap_documents SELECT NEW.*;
    RETURN NEW;
END $$;

CREATE OR REPLACE VIEW dpgap_spender.dpgap_layout AS SELECT * FROM {home}.dpgap_layout;
CREATE OR REPLACE VIEW dpgap_spender.dpgap_entries WITH (security_barrier) AS
    SELECT * FROM {home}.dpgap_entries AS e
    WHERE e.person = session_user OR e.kind IN ('create', 'bind')
        OR e.number = (SELECT max(l.number) FROM {home}.dpgap_entries AS l
            WHERE l.dataset = e.dataset);
CREATE OR REPLACE VIEW dpgap_spender.dpgap_documents WITH (security_barrier) AS
    SELECT * FROM {home}.dpgap_documents AS d
    WHERE EXISTS (SELECT FROM {home}.dpgap_entries AS e
        WHERE e.dataset = d.dataset AND e.number = d.number AND e.person = session_user);

DROP TRIGGER IF EXISTS append ON dpgap_spender.dpgap_entries;
CREATE TRIGGER append INSTEAD OF INSERT ON dpgap_spender.dpgap_entries
    FOR EACH ROW EXECUTE FUNCTION dpgap_spender.append();
DROP TRIGGER IF EXISTS keep ON dpgap_spender.dpgap_documents;
CREATE TRIGGER keep INSTEAD OF INSERT ON dpgap_spender.dpgap_documents
    FOR EACH ROW EXECUTE FUNCTION dpgap_spender.keep();

REVOKE ALL ON ALL TABLES IN SCHEMA dpgap_spender FROM PUBLIC, dpgap_spender;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dpgap_spender FROM PUBLIC, dpgap_spender;
GRANT USAGE ON SCHEMA dpgap_spender TO dpgap_spender;
GRANT SELECT ON ALL TABLES IN SCHEMA dpgap_spender TO dpgap_spender;
GRANT INSERT ON dpgap_spender.dpgap_entries, dpgap_spender.dpgap_documents TO dpgap_spender;
