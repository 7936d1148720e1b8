package engine

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/persistence"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// applicationID marks a database file as one of this engine, in the field of SQLite's file header that is meant for
// it ("WKPT"). The header's user_version holds the number of the schema. The server itself keeps no record of either
// in SQLite and would run, and break, on any schema.
const applicationID = 0x574b5054

// database is one of the two files: which schema it holds, at which version.
type database struct {
	path string
	// asset is the path of the schema among the server's embedded ones.
	asset string
	// version of the schema, "major.minor".
	version string
	// synchronous is SQLite's pragma: 2 waits for the disk at every commit, 1 only at checkpoints (a power cut
	// may take the last commits and never leaves a broken file), 0 never waits.
	synchronous int
}

func mainDatabase(d *dataFiles, o options) database {
	return database{
		path: d.main, asset: "sqlite/v3/temporal/schema.sql", version: sqliteschema.Version,
		synchronous: map[string]int{syncFull: 2, syncNormal: 1, syncOff: 0}[o.synchronous],
	}
}

// visibilityDatabase never waits for the disk at a commit, also with --synchronous full: it holds a list, not the
// truth, and its writes are the largest single cost of the engine.
func visibilityDatabase(d *dataFiles, o options) database {
	return database{
		path: d.visibility, asset: "sqlite/v3/visibility/schema.sql", version: sqliteschema.VisibilityVersion,
		synchronous: map[string]int{syncFull: 1, syncNormal: 1, syncOff: 0}[o.synchronous],
	}
}

// sqlConfig is the server's configuration of the file. It has one connection, the plug-in's default: SQLite has one
// writer at a time, and with more the server meets "database is locked", which it doesn't retry.
func (db database) sqlConfig() *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: uriPath(db.path),
		ConnectAttributes: map[string]string{
			"mode":         "rw",
			"journal_mode": "wal",
			"synchronous":  strconv.Itoa(db.synchronous),
			// Nobody else writes, but somebody may look into the file with another tool.
			"busy_timeout": "10000",
		},
	}
}

// uriPath escapes what ends the path of a SQLite URI. The server puts the name into one as it is.
func uriPath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

// ensure makes the file with its schema if it is not there, or checks that it is one this engine can run on. It says
// whether the file was made.
func (db database) ensure() (made bool, err error) {
	_, err = os.Stat(db.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, db.create()
	case err != nil:
		return false, fmt.Errorf("look at database: %w", err)
	}
	return false, db.verify()
}

// create builds the file beside its place and moves it there, so that a process that dies in between leaves either
// nothing or a whole file.
func (db database) create() error {
	draft := db.path + ".new"
	for _, leftover := range []string{draft, draft + "-journal", db.path + "-wal", db.path + "-shm"} {
		// A write-ahead log without its file would be played into the new one.
		if err := os.Remove(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make database: %w", err)
		}
	}
	if err := db.writeSchema(draft); err != nil {
		return fmt.Errorf("make database %s: %w", db.path, err)
	}
	if err := syncFile(draft); err != nil {
		return fmt.Errorf("make database %s: %w", db.path, err)
	}
	if err := os.Rename(draft, db.path); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	return syncFile(filepath.Dir(db.path))
}

func (db database) writeSchema(path string) error {
	text, err := fs.ReadFile(schema.Assets(), db.asset)
	if err != nil {
		return err
	}
	statements, err := persistence.LoadAndSplitQueryFromReaders([]io.Reader{bytes.NewReader(text)})
	if err != nil {
		return err
	}
	number, err := schemaNumber(db.version)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	// The whole draft is thrown away on any failure, so nothing needs a journal or the disk yet.
	conn, err := sql.Open(sqliteplugin.PluginName, "file:"+uriPath(path)+"?mode=rw&_pragma=journal_mode=off&_pragma=synchronous=0")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	conn.SetMaxOpenConns(1)
	statements = append(statements,
		fmt.Sprintf("PRAGMA application_id=%d", applicationID), fmt.Sprintf("PRAGMA user_version=%d", number))
	for _, statement := range statements {
		if _, err := conn.Exec(statement); err != nil {
			return fmt.Errorf("%q: %w", statement, err)
		}
	}
	return conn.Close()
}

// verify reads the marks of an existing file and refuses one that the server would break on, or would break.
func (db database) verify() error {
	want, err := schemaNumber(db.version)
	if err != nil {
		return err
	}
	conn, err := sql.Open(sqliteplugin.PluginName, "file:"+uriPath(db.path)+"?mode=rw&_pragma=busy_timeout=10000")
	if err != nil {
		return fmt.Errorf("open database %s: %w", db.path, err)
	}
	defer func() { _ = conn.Close() }()
	var id, have int
	if err := conn.QueryRow("PRAGMA application_id").Scan(&id); err != nil {
		return db.unusable(fmt.Errorf("%s is not a readable SQLite database: %w", db.path, err))
	}
	if err := conn.QueryRow("PRAGMA user_version").Scan(&have); err != nil {
		return db.unusable(fmt.Errorf("%s is not a readable SQLite database: %w", db.path, err))
	}
	if id != applicationID {
		return db.unusable(fmt.Errorf("%s was not made by wakepoint-engine", db.path))
	}
	if have != want {
		return db.unusable(fmt.Errorf("%s has schema version %s, this engine (temporal server %s) needs %s",
			db.path, schemaVersion(have), headers.ServerVersion, db.version))
	}
	return nil
}

// fold writes the write-ahead log back, so that a stopped engine's data is in the two files alone. The server leaves its
// connection open when it stops, and with it the log.
func (db database) fold() error {
	conn, err := sql.Open(sqliteplugin.PluginName, "file:"+uriPath(db.path)+"?mode=rw&_pragma=busy_timeout=1000")
	if err != nil {
		return fmt.Errorf("open database %s: %w", db.path, err)
	}
	defer func() { _ = conn.Close() }()
	// Whether it was possible comes back as a row; somebody who is reading the file may prevent it. Nothing is lost
	// then: the next start reads the log.
	if _, err := conn.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return fmt.Errorf("write back the log of %s: %w", db.path, err)
	}
	return nil
}

func (db database) unusable(err error) error {
	return &hintedError{err: err, hint: "start it with the engine that made it, or choose other files; this engine does not touch it"}
}

// schemaNumber turns "major.minor" into the one number that fits the file's header.
func schemaNumber(version string) (int, error) {
	major, minor, ok := strings.Cut(version, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	if !ok || errA != nil || errB != nil || b >= schemaMinors {
		return 0, fmt.Errorf("schema version %q is not major.minor", version)
	}
	return a*schemaMinors + b, nil
}

// schemaMinors bounds the minor numbers of a major schema version; upstream is at 11 after five years.
const schemaMinors = 1000

func schemaVersion(number int) string {
	return fmt.Sprintf("%d.%d", number/schemaMinors, number%schemaMinors)
}

// syncFile waits until a file or a folder is on the disk.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return file.Sync()
}
