//go:build unix

package cli

import "syscall"

// freeSpace is how much of the disk under a folder this user may still fill, in bytes.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	// The types of the fields differ between systems.
	return uint64(s.Bavail) * uint64(s.Bsize), nil //nolint:unconvert // see above
}
