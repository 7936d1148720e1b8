// Package typescript holds a test of the long suite that uses an activity and a workflow as tools
// that somebody wrote in TypeScript, with no thought of Wakepoint: src is all there is of them. It
// needs Node.js 20 and npm.
package typescript
