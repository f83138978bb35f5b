#!/bin/sh
# Makes the warehouse `lake` in Polaris, if it is not there, and lets the root principal use it.
set -eu
api=http://catalog:8181/api
token=$(curl --silent --fail "$api/catalog/v1/oauth/tokens" --user "root:$SECRET" \
    --data grant_type=client_credentials --data scope=PRINCIPAL_ROLE:ALL |
    sed -n 's/.*"access_token":"\([^"]*\)".*/\1/p')
manage() {
    method=$1 path=$2
    shift 2
    curl --silent --show-error --output /dev/stderr --write-out '%{http_code}' --request "$method" \
        --header "Authorization: Bearer $token" --header 'Content-Type: application/json' \
        "$api/management/v1/$path" "$@"
}

# 409 says that it is there already.
made=$(manage POST catalogs --data '{"catalog": {"name": "lake", "type": "INTERNAL",
    "properties": {"default-base-location": "s3://lake/warehouse"},
    "storageConfigInfo": {"storageType": "S3", "allowedLocations": ["s3://lake/"],
        "endpoint": "http://s3:9000", "pathStyleAccess": true, "stsUnavailable": true}}}')
case $made in 201 | 409) ;; *) exit 1 ;; esac
granted=$(manage PUT catalogs/lake/catalog-roles/catalog_admin/grants \
    --data '{"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}')
case $granted in 20*) ;; *) exit 1 ;; esac
