package store

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
)

// FileURL gives the URL of a store in a folder, for [Open].
func FileURL(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("store folder: %w", err)
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}).String(), nil
}

// openFolder opens a file:// URL. The driver's parameters are ours to set: temporary files lie
// beside the objects, since a rename cannot cross file systems, and no metadata is written, since
// a second file beside each object could not be replaced together with it.
func openFolder(u *url.URL) (*blob.Bucket, string, error) {
	if len(u.Query()) > 0 {
		return nil, "", fmt.Errorf("a file:// store takes no parameters, found %q", u.RawQuery)
	}
	if u.Host != "" && u.Host != "localhost" {
		return nil, "", fmt.Errorf("a file:// store needs an absolute path, found host %q", u.Host)
	}
	if !filepath.IsAbs(u.Path) {
		return nil, "", fmt.Errorf("a file:// store needs an absolute path, found %q", u.Path)
	}
	root := filepath.Clean(u.Path)
	bucket, err := fileblob.OpenBucket(root, &fileblob.Options{
		CreateDir:   true,
		DirFileMode: 0o700,
		NoTempDir:   true,
		Metadata:    fileblob.MetadataDontWrite,
	})
	return bucket, root, err
}

// syncFolders makes the names above a file durable, up to the store's folder: a rename is on
// disk only when its folder is, and the folder only when its own name is.
func syncFolders(name, root string) error {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if err := syncFolder(dir); err != nil {
			return err
		}
		if dir == root || dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}
