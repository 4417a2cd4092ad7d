/// What the host is called for when the queue is closed: the ends of drains, and the releases.
struct LastCallbacks: Sendable {
    var drains: [@Sendable () -> Void] = []
    var releases: [(@Sendable () -> Void)?] = []

    mutating func runDrains() {
        for drain in drains { drain() }
        drains = []
    }

    mutating func runReleases() {
        for index in releases.indices {
            releases[index]?()
            releases[index] = nil
        }
    }
}
