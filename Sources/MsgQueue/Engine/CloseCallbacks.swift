/// The callbacks of a close: the ends of drains, and the releases. Used by one thread at a time.
final class CloseCallbacks: @unchecked Sendable {
    private var drains: [@Sendable () -> Void]
    private var releases: [(@Sendable () -> Void)?]

    init(drains: [@Sendable () -> Void], releases: [(@Sendable () -> Void)?]) { (self.drains, self.releases) = (drains, releases) }

    func runDrains() {
        for drain in drains { drain() }
        drains = []
    }

    func runReleases() {
        for index in releases.indices {
            releases[index]?()
            releases[index] = nil
        }
    }
}
