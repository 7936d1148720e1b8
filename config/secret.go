package config

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// EnvSecret is the environment variable of the installation's secret.
const EnvSecret = "WAKEPOINT_SECRET"

// MinSecret is the shortest secret of an installation, in bytes.
const MinSecret = 16

// secretFile is its name in the data folder.
const secretFile = "secret"

// ErrSecret is the class of errors about secrets. None of them quotes one.
var ErrSecret = errors.New("secret")

// SecretRef says where a secret is: never what it is, so that a configuration can
// be shown and kept with the code.
type SecretRef struct {
	// Env is the name of an environment variable.
	Env string
	// File is the path of a file that only its owner can read.
	File string
}

// IsZero tells whether nothing is named.
func (r SecretRef) IsZero() bool { return r == SecretRef{} }

// Read gets the secret, without surrounding white space. The environment is an
// argument (os.Getenv in programs).
func (r SecretRef) Read(getenv func(string) string) ([]byte, error) {
	switch {
	case r.Env != "":
		v := bytes.TrimSpace([]byte(getenv(r.Env)))
		if len(v) == 0 {
			return nil, fmt.Errorf("%w: environment variable %s is not set", ErrSecret, r.Env)
		}
		return v, nil
	case r.File != "":
		return readSecretFile(r.File)
	}
	return nil, fmt.Errorf("%w: neither env nor file is named", ErrSecret)
}

// Secret gets the secret of the installation: that which the configuration names,
// else the environment variable WAKEPOINT_SECRET, else a file in the data folder
// that the first process to need it creates. Every process that turns idempotency
// keys into task ids must have the same one.
func Secret(c *Config, getenv func(string) string) ([]byte, error) {
	secret, err := installationSecret(c, getenv)
	if err != nil {
		return nil, err
	}
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("%w: the installation's must have at least %d bytes, it has %d", ErrSecret, MinSecret, len(secret))
	}
	return secret, nil
}

// SecretSource says from where [Secret] would get the secret, and makes none: "" means
// that the first process to need one will. The error is that of [Secret].
func SecretSource(c *Config, getenv func(string) string) (string, error) {
	path := filepath.Join(c.DataDir, secretFile)
	from := "file " + path
	switch {
	case c.Secret.Env != "":
		from = "environment variable " + c.Secret.Env
	case c.Secret.File != "":
		from = "file " + c.Secret.File
	case getenv(EnvSecret) != "":
		from = "environment variable " + EnvSecret
	default:
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
	}
	_, err := Secret(c, getenv)
	return from, err
}

func installationSecret(c *Config, getenv func(string) string) ([]byte, error) {
	switch {
	case !c.Secret.IsZero():
		return c.Secret.Read(getenv)
	case getenv(EnvSecret) != "":
		return SecretRef{Env: EnvSecret}.Read(getenv)
	}
	path := filepath.Join(c.DataDir, secretFile)
	secret, err := readSecretFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	if err := createSecretFile(path); err != nil {
		return nil, fmt.Errorf("%w: create %s: %w", ErrSecret, path, err)
	}
	return readSecretFile(path)
}

func readSecretFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecret, err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecret, err)
	}
	const othersMay, limit = 0o077, 64 << 10
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s must be a regular file", ErrSecret, path)
	case info.Mode().Perm()&othersMay != 0:
		return nil, fmt.Errorf("%w: %s may be read by others (mode %04o), run: chmod 600 %s", ErrSecret, path, info.Mode().Perm(), path)
	case info.Size() > limit:
		return nil, fmt.Errorf("%w: %s must have at most %d bytes", ErrSecret, path, limit)
	}
	b := make([]byte, info.Size())
	if n, err := f.ReadAt(b, 0); err != nil && n < len(b) {
		return nil, fmt.Errorf("%w: read %s: %w", ErrSecret, path, err)
	}
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: %s is empty", ErrSecret, path)
	}
	return b, nil
}

// createSecretFile makes the file unless it is there. Of several processes that
// do so at once one wins and all use its secret: the file is written whole under
// another name first, and a hard link, unlike a rename, never replaces.
func createSecretFile(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".secret-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return errors.Join(err, f.Close())
	}
	// CreateTemp gives mode 0600.
	_, err = f.WriteString(hex.EncodeToString(random) + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
