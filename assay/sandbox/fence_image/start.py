"""What the fence's container runs."""

from assay.sandbox.fence_image.sidecar import main

main()
